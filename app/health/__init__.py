"""Whether the service works, for load balancers and monitoring."""
