"""Raw text to kept documents."""
