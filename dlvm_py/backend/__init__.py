"""Program to something that runs or reads."""
