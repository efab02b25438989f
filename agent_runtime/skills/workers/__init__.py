"""Worker processes of skills: started, pooled, spoken with, ended."""
