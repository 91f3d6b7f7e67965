-- Return for how long a plain lock is held: a string with a TTL, as other libraries write it with SET NX PX.
-- KEYS  1 the lock
-- RETURN  -1 - the remaining ms, -1 if there is none; nothing if the key holds other data than a lock
local kind = redis.call('type', KEYS[1]).ok
if kind == 'none' or kind == 'hash' then return -1 end
local ttl = redis.call('pttl', KEYS[1])
return kind == 'string' and ttl >= 0 and -1 - ttl
