"""Pictures of a result, drawn with Vega-Lite as SVG or PNG: no browser and no script is needed to make or to see them."""
