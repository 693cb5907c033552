"""The drill: inject faults and measure how servers recover."""
