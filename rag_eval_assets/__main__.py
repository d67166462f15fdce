"""`python -m rag_eval_assets` is `rag-eval`."""

from rag_eval_assets.cli import main

if __name__ == "__main__":
    main()
