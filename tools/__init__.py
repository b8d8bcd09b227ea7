"""What keeps the repository's documents true."""
