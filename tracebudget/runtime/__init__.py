"""What `manage.py up` is made of: embedded servers, child processes, the first start."""
