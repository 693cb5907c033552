"""Draw charts as SVG and embed them in HTML."""
