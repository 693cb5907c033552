"""The drill: inject faults and see how servers recover."""
