"""What makes a definition that loads still a bad one, in one small file per subject."""
