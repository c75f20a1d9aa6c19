"""Steps that drop documents, or cut them."""
