"""What text may hold that a person sees, what of it could deceive, and how it is read and worded."""
