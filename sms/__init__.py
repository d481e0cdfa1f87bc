"""Reference-based summary metrics: text, embeddings, transport, similarity."""
