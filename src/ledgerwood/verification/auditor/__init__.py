"""The statistical auditor: samples a mechanism, chooses an event, and certifies a lower bound on fresh outputs."""
