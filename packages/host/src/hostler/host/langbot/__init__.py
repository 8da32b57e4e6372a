"""Make configuration entries of a LangBot installation. For `hostler import langbot` alone."""
