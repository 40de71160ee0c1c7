"""The methods that the paper compares with, each behind the same call as ours."""
