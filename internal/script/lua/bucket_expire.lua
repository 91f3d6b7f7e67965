-- Read a value and set its expiry.
-- KEYS  1 the value
-- ARGV  1 ms until it expires; 0: never
-- RETURN  the value, or nothing
local value = redis.call('get', KEYS[1])
if ARGV[1] == '0' then
  redis.call('persist', KEYS[1])
else
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return value
