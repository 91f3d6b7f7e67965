-- Set a number if it is the expected one; none counts as 0. Running it twice does what running it once does.
-- KEYS  1 the number
--       2 the mark of the lane
-- ARGV  1 the expected number
--       2 number of the request
--       3 how long to remember it, in ms
--       4 the new number
-- RETURN  1 set, 0 it was another
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
local old = number(KEYS[1]) or '0'
-- A refusal is remembered, too: a copy that comes late must not swap what its sender was told has not been.
if old ~= ARGV[1] then
  remember(KEYS[2], ARGV[2], 'other', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[4])
remember(KEYS[2], ARGV[2], 'set', ARGV[3])
return 1
