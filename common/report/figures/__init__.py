"""From raw values to figures: speeds, spreads, survival."""
