"""Small tasks that one attention is trained on, and the models that learn them."""
