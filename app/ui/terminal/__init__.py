"""What the app has to do with the terminal besides drawing."""
