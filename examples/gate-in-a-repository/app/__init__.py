"""The application of this repository: it reads digits. Seatrial has a package of this name too; both get along."""
