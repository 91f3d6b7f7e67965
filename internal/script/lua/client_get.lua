-- Read what a client says about itself.
-- KEYS  1 its key
-- ARGV  1 how many bytes it has at most
-- RETURN  the text, or nothing
local n = redis.pcall('strlen', KEYS[1]) -- fails on a key of another type
if type(n) ~= 'number' or n == 0 or n > tonumber(ARGV[1]) then return false end
return redis.call('get', KEYS[1])
