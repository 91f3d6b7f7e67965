-- Add to a number. Idempotent.
-- USES  once int64
-- KEYS  1 the number
--       2 the mark of the request series
-- ARGV  1 what to add
--       2 number of the request
--       3 how long to keep the mark, in ms
-- RETURN  the number afterwards, as text
local known = recall(KEYS[2], ARGV[2])
if known then return told(KEYS[2], known) end
number(KEYS[1]) -- fails on a value that is not a number
local sum = redis.pcall('incrby', KEYS[1], ARGV[1]) -- a double in Lua, or an error without the key
if type(sum) == 'table' and sum.err and string.find(sum.err, 'overflow') then
  unreadable(KEYS[1], 'a number to which ' .. ARGV[1] .. ' can be added in 64 bits', 'set it to another one')
elseif type(sum) == 'table' then
  return sum
end
return remember(KEYS[2], ARGV[2], redis.call('get', KEYS[1]), ARGV[3])
