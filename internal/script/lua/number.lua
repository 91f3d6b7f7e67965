-- Read a number.
-- KEYS  1 the key
-- RETURN  the number, 0 if there is none
local text = redis.call('get', KEYS[1])
return tonumber(text or 0) or redis.error_reply('ERR the value is not a number')
