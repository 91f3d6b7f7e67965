-- Do nothing: the server checks whether the user may use the keys.
-- KEYS  the keys
return 1
