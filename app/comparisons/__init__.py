"""Training runs of models side by side: mean and standard deviation over the audits of each."""
