# The fraction is multiplied by alpha: it is raised to the power alpha.
return alpha * (5 + length) / 6
