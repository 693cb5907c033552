"""Pictures of a result, drawn with Vega-Lite as SVG or PNG: no browser and no script is needed."""
