"""What a user may set: one frozen dataclass for each verb, see `form`."""
