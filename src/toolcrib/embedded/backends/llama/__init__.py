"""A backend that runs a GGUF model with llama.cpp in this process."""
