"""Types from the committed documents, one module a wire."""
