"""`python -m hostler` is `hostler`."""

from hostler.cli.main import main

if __name__ == "__main__":
    main()
