"""`mooring k8s`: from what was given, or from a file, to manifests."""
