"""Pictures of a result, drawn with Vega-Lite as SVG or PNG: neither a browser nor a script is needed to see them."""
