"""Everything `manage.py up` needs to run Tracebudget on one machine: embedded servers, child processes, first start."""
