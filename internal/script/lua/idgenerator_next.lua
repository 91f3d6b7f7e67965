-- Allocate a block of ids. Running it twice wastes a block.
-- USES  int64
-- KEYS  1 the next id
--       2 the block size
-- ARGV  1 the lowest id allowed, since the caller has used lower ones; empty: any
--       2 the block size if none is stored
-- RETURN  the first id and the block size, as text
local stored, size = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
local first = stored or '1'
if not int64(first) then unreadable(KEYS[1], 'the next id of a generator', 'use another name, or check which program writes the key') end
if size and (not int64(size) or less(size, '1')) then
  unreadable(KEYS[2], 'how many ids a generator gives out at a time', 'delete it, or set it to a number above zero')
end
if not size then
  size = ARGV[2]
  redis.call('set', KEYS[2], size)
end
-- A server that has lost its data restarts below the lowest id allowed.
if ARGV[1] ~= '' and less(first, ARGV[1]) then first = ARGV[1] end
if first ~= stored then redis.call('set', KEYS[1], first, 'keepttl') end
local next = redis.pcall('incrby', KEYS[1], size)
if type(next) == 'table' and next.err and string.find(next.err, 'overflow') then
  error('the keys ' .. KEYS[1] .. ' and ' .. KEYS[2] .. ' leave no ids of 64 bits: set them to lower numbers', 0)
elseif type(next) == 'table' then
  return next
end
return {first, size}
