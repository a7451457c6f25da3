"""Results for people: how numbers and terms are written, in reports, in the console and on the command line."""
