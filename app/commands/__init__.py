"""What `signoff COMMAND` does, one module per group of commands; none of them imports Textual."""
