"""Commands about calls that outlive their caller."""
