# Only the length is raised to alpha: the whole fraction is.
return (5 + length**alpha) / 6
