-- Give out a block of ids. Running it twice wastes one.
-- KEYS  1 the next id
--       2 how many at a time
-- ARGV  1 the least id that may be given out: the caller has had lower ones; empty: any
--       2 how many at a time if nobody has said
-- RETURN  the first id and how many, as text
local stored, size = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
local first = stored or '1'
if not int64(first) then unreadable(KEYS[1], 'the next id of a generator', 'use another name, or delete the key') end
if size and (not int64(size) or less(size, '1')) then
  unreadable(KEYS[2], 'how many ids a generator gives out at a time', 'delete it, or set it to a number above zero')
end
if not size then
  size = ARGV[2]
  redis.call('set', KEYS[2], size)
end
-- A server that has lost its data starts again below.
if ARGV[1] ~= '' and less(first, ARGV[1]) then first = ARGV[1] end
if first ~= stored then redis.call('set', KEYS[1], first, 'keepttl') end
local next = redis.pcall('incrby', KEYS[1], size)
if type(next) == 'table' and next.err and string.find(next.err, 'overflow') then
  error('the keys ' .. KEYS[1] .. ' and ' .. KEYS[2] .. ' leave no ids of 64 bits: set them to lower numbers', 0)
elseif type(next) == 'table' then
  return next
end
return {first, size}
