"""One function a cause, thresholds as constants with their reasons. Importing this package registers them all."""
