"""A small decoder that learns steps from scratch: vocabulary, examples, model, training, decoding, reinforcement."""
