-- Scan the keys of a server.
-- USES  inspect
-- KEYS  1 any key on that server
-- ARGV  1 cursor: 0, or the one of the last reply
--       2 pattern
--       3 about how many keys to scan
--       4 the type of the keys to return
--       5... of hashes, the fields that they have; without fields, those of locks
-- RETURN  two elements: the next cursor, 0 at the end; the keys, of hashes only those that look like locks or have all fields
local page = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3], 'type', ARGV[4])
if ARGV[4] ~= 'hash' then return page end
local keys = {}
local function has(key)
  for i = 5, #ARGV do
    if redis.call('hexists', key, ARGV[i]) == 0 then return false end
  end
  return true
end
for _, key in ipairs(page[2]) do
  if bytes < 0 then
    keys[#keys + 1] = key
  else
    -- A hash that cannot be checked here is returned. Inspecting it will report the error.
    local read, fits
    if ARGV[5] then read, fits = pcall(has, key) else read, fits = pcall(lock, key, 20) end
    if not read or fits then keys[#keys + 1] = key end
  end
end
return { page[1], keys }
