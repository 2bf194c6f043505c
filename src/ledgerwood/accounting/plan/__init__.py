"""Plans: releases, their noise and their shares of a budget, decided before data is touched."""
