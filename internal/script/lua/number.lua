-- Read a number.
-- USES  int64
-- KEYS  1 the key
-- RETURN  the number, 0 if there is none; its text if it has more than 53 bits
return exact(number(KEYS[1]) or '0')
