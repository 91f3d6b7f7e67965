-- Which hashes are those of locks. They have a field for each who holds it, <client>:<number> -> how often it has entered,
-- with :write appended to it for a writer; beside that only mode, or what the leader of an election says of itself.
local SAID = 65536 -- the longest that a leader may say, and more
local HEX = '%x%x%x%x'
local UUID = '^' .. HEX .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. HEX .. HEX .. ':'

-- spend reports whether so many bytes more may be read. What was read of data that is not ours may be of any size, so each
-- element is read by itself, and none after the first that is too long.
local bytes = 1048576
local function spend(n)
  bytes = bytes - n
  return bytes >= 0
end

-- names returns the fields of a hash, at most about so many, or nothing if there is too much to read.
local function names(key, most)
  local found, seen, cursor = {}, {}, '0'
  repeat
    local page = redis.call('hscan', key, cursor, 'count', 1)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local field = page[2][i]
      if not spend(#field + #page[2][i + 1]) then return nil end
      if not seen[field] then found[#found + 1] = field end
      seen[field] = true
    end
  until cursor == '0' or #found >= most
  return found
end

-- entered returns how often, or nil if the field is not that of an owner. No other value is read: it may be of any size.
local function entered(key, field, mode, endless)
  local owner = mode == 'write' and string.match(field, '^(.*):write$') or field
  if not string.find(owner, ':%d+$') or redis.call('hstrlen', key, field) > 5 then return nil end
  -- A lock without an end is rare, and such a field in somebody's data is not.
  if endless and not string.find(owner, UUID) then return nil end
  return tonumber(string.match(redis.call('hget', key, field) or '', '^[1-9]%d*$') or nil)
end

-- lock returns the mode of a lock, or '' if it has none, the fields of at most so many owners with their counts, and how
-- many fields more it has; nothing if the hash is not that of a lock. If the caller has named the lock, owners of a lock without
-- an end need not look like those of Redisson and Holdfast.
local function lock(key, most, named)
  local size, long = redis.call('hlen', key), redis.call('hstrlen', key, 'mode')
  local mode = (long == 4 or long == 5) and redis.call('hget', key, 'mode') or ''
  if mode ~= 'read' and mode ~= 'write' then mode = '' end
  if mode == '' and size > 2 then return nil end
  local fields = names(key, size <= most + 1 and size or most)
  if not fields then return nil end
  local owners, counts, others, endless = {}, {}, 0, not named and redis.call('pttl', key) == -1
  for _, field in ipairs(fields) do
    if field == (mode == '' and 'leader' or 'mode') then
      if redis.call('hstrlen', key, field) > SAID then return nil end
      others = others + 1
    else
      local n = entered(key, field, mode, endless)
      if not n then return nil end
      owners[#owners + 1], counts[#counts + 1] = field, n
    end
  end
  if #owners == 0 or mode == '' and #owners > 1 then return nil end
  if mode ~= '' then others = 1 end -- HSCAN may not have come to it
  return mode, owners, counts, size - others - #owners
end
