-- Acquire all free permits. Idempotent.
-- USES  once int64
-- KEYS  1 the number of free permits
--       2 the mark of the request series
-- ARGV  1 number of the request
--       2 how long to keep the mark, in ms
-- RETURN  how many; as text if that has more than 53 bits
local known = recall(KEYS[2], ARGV[1])
if known then return exact(told(KEYS[2], known)) end
local free = number(KEYS[1]) or '0'
if less(free, '0') then free = '0' end
if free ~= '0' then redis.call('decrby', KEYS[1], free) end
remember(KEYS[2], ARGV[1], free, ARGV[2])
return exact(free)
