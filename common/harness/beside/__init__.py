"""What runs beside a siege and writes down what it sees."""
