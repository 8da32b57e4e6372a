"""`hostler test FOLDER --faults`: a runner's life again and again, each with one fault at one host call."""
